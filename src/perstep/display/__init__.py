"""What people see while they wait, and how anything is drawn: progress bars, plots without pyplot, pictures."""
