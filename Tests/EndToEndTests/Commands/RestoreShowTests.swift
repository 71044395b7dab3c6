import TestSupport
import Testing

@Suite(.timeLimit(.minutes(5))) struct `pushq-admin restore show` {
    /// The old primary may have gone on for long after workers and commands found the new one.
    @Test func `has also those changes repeated that an old primary took after a standby's takeover`() async throws {
        try await Shop.open { shop in
            // It has the name of the server, which is otherwise found to be yet another copy.
            try await shop.run(
                """
                insert into pushq.lineage (name, is_restore, back_to, old_id)
                select pushq.current_lineage(), false, now() - interval '1 minute', o.last_value from pushq.old_id o
                """)
            let shown = try await shop.admin("restore", "show")
            #expect(shown.code == 0, "\(shown.errors)")
            #expect(shown.errors.contains("a standby took over, found at "), "\(shown.errors)")
            #expect(shown.errors.contains("or later at the old server if it still ran"), "\(shown.errors)")
        }
    }
}
