"""What Lambda functions share: settings, logs, metrics and snapshots."""
