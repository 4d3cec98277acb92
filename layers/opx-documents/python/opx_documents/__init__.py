"""Documents of offices: PDF, Word, PowerPoint, Excel, mail, pictures, reStructuredText and AsciiDoc."""
