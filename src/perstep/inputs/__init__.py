"""What people give: values checked, names looked up, words of other libraries; every refusal is a sentence."""
