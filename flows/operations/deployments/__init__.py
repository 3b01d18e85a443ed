"""Making a product run by itself: work pool, deployment, schedule, automation."""
