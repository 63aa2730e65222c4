"""What our pages share: one style sheet, the frame of a document, numbers in few letters, pieces of SVG."""
