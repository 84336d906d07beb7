-- Vectors beside the store's tables. A row is deleted with its recall row, in one transaction.
CREATE TABLE octopus_vectors AS
    SELECT scope_id, seq, tenant, model_id, episode_id, ordinal FROM octopus_recall WITH NO DATA;
ALTER TABLE octopus_vectors
    ADD COLUMN terms integer[] NOT NULL,
    ADD COLUMN embedding halfvec NOT NULL,
    ALTER COLUMN tenant SET NOT NULL,
    ALTER COLUMN model_id SET NOT NULL,
    ALTER COLUMN episode_id SET NOT NULL,
    ALTER COLUMN ordinal SET NOT NULL,
    -- Statistics hold sampled values, which would outlive erased rows.
    ALTER COLUMN terms SET STATISTICS 0,
    ALTER COLUMN embedding SET STATISTICS 0,
    -- Every search reads every vector of its scope: keep them in the row, not in a TOAST table.
    ALTER COLUMN embedding SET STORAGE PLAIN,
    ADD PRIMARY KEY (scope_id, seq);
CREATE INDEX octopus_vectors_episode ON octopus_vectors (scope_id, episode_id);
ALTER TABLE octopus_vectors ENABLE ROW LEVEL SECURITY;
ALTER TABLE octopus_vectors FORCE ROW LEVEL SECURITY;
CREATE POLICY octopus_reach ON octopus_vectors
    USING ((SELECT current_setting('octopus.reach')) IN ('all', 'tenant:' || tenant))
    WITH CHECK ((SELECT current_setting('octopus.reach')) IN ('all', 'tenant:' || tenant));
