"""What Agent Memory can do with packages beyond the standard library; nothing here is imported unless settings name it."""
