import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `An export of devices` {
    @Test func `of a queue without any is a heading, which import reads`() async throws {
        try await Shop.open { shop in
            let export = try await shop.admin("device", "export", Shop.queue)
            #expect(export.code == 0)
            #expect(export.output.hasPrefix("token,"))
            #expect(export.output.split(separator: "\n").count == 1)
            let imported = try await shop.admin("device", "import", Shop.queue, "-", input: export.output)
            #expect(imported.code == 0, "\(imported.errors)")
        }
    }

    @Test func `of a queue that is not there is an error without a heading`() async throws {
        try await Shop.open { shop in
            let export = try await shop.admin("device", "export", "no/such.app/production")
            #expect(export.code == 1)
            #expect(export.output == "")
        }
    }
}
