// Git structure
commit --[modifies]--> file
commit --[creates]--> file
commit --[parent]--> commit
branch --[contains]--> commit
