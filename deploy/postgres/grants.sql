-- Run as octopus_owner whenever the tables may have been made or upgraded; to repeat it changes
-- nothing. The application adds to the audit log, and cannot change or remove an entry.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO octopus_app;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO octopus_app;
REVOKE UPDATE, DELETE ON octopus_audit FROM octopus_app;
REVOKE INSERT, UPDATE, DELETE ON octopus_schema FROM octopus_app;
