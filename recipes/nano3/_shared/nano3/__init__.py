"""Code that the nano3 recipes share; it travels in the job bundle beside each recipe's script."""
