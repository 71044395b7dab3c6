import QueueCore
import Testing

@Suite struct `The name of a queue` {
    @Test func `is read and written alike`() throws {
        let name = try QueueName(parsing: "acme/com.acme.Shop-2/sandbox")
        #expect(name == QueueName(tenant: "acme", app: "com.acme.Shop-2", environment: .sandbox))
        #expect(name.description == "acme/com.acme.Shop-2/sandbox")
    }

    @Test(arguments: [
        ("acme", NameError.queueParts("acme")),
        ("acme/com.acme/sandbox/x", .queueParts("acme/com.acme/sandbox/x")),
        ("Acme/com.acme/sandbox", .tenant("Acme")),
        ("/com.acme/sandbox", .tenant("")),
        ("-acme/com.acme/sandbox", .tenant("-acme")),
        ("acme//sandbox", .app("")),
        ("acme/com acme/sandbox", .app("com acme")), ("acme/./sandbox", .app(".")),
        ("acme/com..acme/sandbox", .app("com..acme")), ("acme/com.acme./sandbox", .app("com.acme.")),
        ("acme/-com.acme/sandbox", .app("-com.acme")),
        ("acme/com.acme/Sandbox", .environment("Sandbox")),
        ("acme/com.acme/development", .environment("development")),
    ])
    func `is refused with the part that is wrong`(text: String, error: NameError) {
        #expect(throws: error) { try QueueName(parsing: text) }
    }

    @Test func `an error says what to do`() {
        #expect(NameError.environment("prod").description == "environment “prod” is unknown: use production or sandbox")
    }
}
