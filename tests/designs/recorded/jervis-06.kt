// Git Commit
nodeKey: "commit::{commitHash}"
type: "commit"
props: { hash: String, message: String, authorName: String, timestamp: Instant, branchName: String? }

// Git Branch
nodeKey: "branch::{branchName}"
type: "branch"
props: { name: String, isDefault: Boolean, lastCommitHash: String, createdAt: Instant? }
