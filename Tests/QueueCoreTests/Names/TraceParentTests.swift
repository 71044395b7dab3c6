import QueueCore
import Testing

@Suite struct `A traceparent` {
    /// Values that are valid here and in `pushq.check_traceparent`, which has the same rule.
    static let valid = [
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000001-0000000000000001-00",
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff",
        // A later version, with additional fields.
        "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-abc",
    ]
    static let invalid = [
        "", "x", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
        "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
        "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x y",
        "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-" + String(repeating: "x", count: 145),
        "00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
    ]

    @Test(arguments: valid) func `is kept as it was given`(text: String) throws {
        #expect(try TraceParent(text).text == text)
    }

    @Test(arguments: invalid) func `is of the form that W3C defines`(text: String) {
        #expect(throws: TraceParentError()) { try TraceParent(text) }
    }
}
