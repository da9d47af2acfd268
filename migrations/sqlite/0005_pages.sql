-- Where each page of a document begins in its stored text, as a JSON list of byte offsets; empty for formats
-- without pages. With it a document can be cut anew, pages and all, without what was uploaded.
ALTER TABLE versions ADD COLUMN pages TEXT NOT NULL DEFAULT '[]';
