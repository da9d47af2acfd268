-- The last frame that was stored when the process died in the middle of the turn; what follows was added at the next
-- start. A reader may have seen other frames with those numbers.
ALTER TABLE turn_log ADD COLUMN cut_after BIGINT;
