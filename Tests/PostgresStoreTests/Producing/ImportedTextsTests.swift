import QueueCore
import TestSupport
import Testing

@testable import PostgresStore

/// Swift takes texts for equal that Unicode calls equivalent, such as an accented letter and a letter with a combining
/// accent. PostgreSQL, filters and registrations compare bytes.
@Suite struct `Texts in a file of devices` {
    private func add(_ text: String, _ store: PostgresConnection) async throws -> DeviceImportSummary {
        try await store.importDevices(from: .text(text), inQueue: QueueFixture.name, reactivates: false) { _ in }
    }

    @Test func `stay different if their bytes are, as in a registration`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let tags = #"["caf\u00e9","cafe\u0301","\u2126","\u03a9","\u03a9"]"#
            _ = try await add(#"{"token":"a1","tags":\#(tags)}"#, queue.connection)
            // A bar, and a tag that begins with a combining accent.
            _ = try await add("token,tags\na2,a|\u{301}b\n", queue.connection)
            try await queue.run(
                """
                select pushq.register_device('\(QueueFixture.name)', 'b1', null, tags => array(
                         select json_array_elements_text('\(tags)')));
                select pushq.register_device('\(QueueFixture.name)', 'b2', null, tags => array['a', U&'\\0301b'])
                """)
            let stored = try await queue.texts(
                """
                select p.tags from pushq.profile p
                join pushq.device d on d.queue_id = p.queue_id and d.id = p.device_id
                order by d.token
                """
            ).map { Array($0.utf8) }
            #expect(stored[0] == stored[2] && stored[1] == stored[3])
            #expect(
                try await queue.texts("select cardinality(p.tags) from pushq.profile p order by 1") == [
                    "2", "2", "4", "4",
                ])
        }
    }

    @Test func `count as names of attributes by their bytes`() throws {
        let long = String(repeating: "x", count: 5000)
        var reader = JSONReader(#"{"caf\u00e9":"\#(long)","cafe\u0301":"\#(long)"}"#)
        #expect(try reader.read().storedBytes == 2 + 2 * 5002 + 7 + 8 + 2 * 2 + 2)
    }
}
