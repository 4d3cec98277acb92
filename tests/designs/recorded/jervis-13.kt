// Confluence relationships
confluence_page --[documents]--> class
confluence_page --[references]--> jira_issue
