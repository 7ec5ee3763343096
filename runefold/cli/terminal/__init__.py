"""What all commands share: options, output, wording, errors and exit codes."""
