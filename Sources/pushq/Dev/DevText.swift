import FoundationEssentials
import QueueCore
import Terminal

/// The text for the developer: where everything is, and what to try.
struct DevText: Sendable {
    let stack: Stack
    let masterKeyFile: String
    /// The address of the local APNs.
    let gateway: String
    let dashboard: DevDashboard.Ready
    /// The executable `pushq-admin`.
    let admin: String

    func show(on console: Console) {
        console.show(text, json: json)
    }

    /// Commands to paste into a shell, each with a description.
    private var tries: [(command: String, about: String)] {
        let queue = "\(DevSample.queue)"
        return [
            ("pushq send \(queue) --user 7 --alert Hello --wait", "a push to a user"),
            (
                "pushq-admin trace \(queue) --user \(DevSample.unluckyUser) --campaign \(DevSample.endedCampaign)",
                "why did user \(DevSample.unluckyUser) not get it?"
            ),
            (
                "psql \"$PUSHQ_DATABASE_URL\" -c \"select pushq.send('\(queue)', '{\\\"aps\\\": {\\\"alert\\\": \\\"From SQL\\\"}}', user_key => '8')\"",
                "the same from a program"
            ),
            ("pushq-admin campaign list", "campaigns; summer-preview goes on for an hour"),
            ("pushq-admin stats", "what the queues hold"),
            ("pushq-admin doctor", "what is wrong here"),
            ("pushq-admin top", "a live screen; q ends it"),
        ]
    }

    /// The settings with which commands find this installation.
    private var exports: [String] {
        let folder = URL(fileURLWithPath: admin).deletingLastPathComponent().path
        return [
            "export PATH=\(ShellWords.quoted(folder)):\"$PATH\"",
            "export PUSHQ_DATABASE_URL=\(ShellWords.quoted(stack.databaseURL))",
            "export PUSHQ_MASTER_KEY_FILE=\(ShellWords.quoted(masterKeyFile))",
        ]
    }

    private var text: String {
        let facts = Table.facts([
            ("dashboard", .text(dashboard.address)), ("token to change", .text(dashboard.tokenToChange)),
            ("token to read", .text(dashboard.tokenToRead)),
        ])
        let settings = exports.map { "  " + $0 }.joined(separator: "\n")
        let commands = tries.map { "  # \($0.about)\n  \($0.command)" }.joined(separator: "\n")
        return """
            \(facts)

            In another shell:

            \(settings)

            And then:

            \(commands)

            Ctrl-C ends all of it.
            """
    }

    private var json: JSON {
        [
            "dashboard": .string(dashboard.address), "token_to_change": .string(dashboard.tokenToChange),
            "token_to_read": .string(dashboard.tokenToRead), "database_url": .string(stack.databaseURL),
            "gateway": .string(gateway), "master_key_file": .string(masterKeyFile),
            "queue": .string("\(DevSample.queue)"),
        ]
    }
}
