import FoundationEssentials
import QueueCore
import Terminal

struct LintCommand: Command {
    static let name = "lint"
    static let users = CommandUsers.anybody
    static let summary = "Checks a payload against the rules of APNs and devices, without sending anything."
    static let discussion = """
        'send', 'campaign' and the SQL functions refuse a payload with errors. Warnings only inform. The exit code is \
        1 if there are errors.
        """
    static let examples = [
        "lint payload.json",
        "lint activity.json --push-type liveactivity --priority 5",
        "lint update.json --broadcast none --expiration 0",
        "lint pass.json --bundle-id pass.com.acme.card",
    ]

    @Positional("The payload, JSON; - is standard input.") var file: InputFile
    @Option("The type of push; by default alert.", "TYPE") var pushType: PushType?
    @Option("The priority: 10, 5 or 1.", "10|5|1") var priority: Int?
    @Option("The expiration as in SQL: 0, or seconds since 1970.", "SECONDS") var expiration: Int?
    @Option("The collapse ID.", "ID") var collapseId: String?
    @Option("The app's bundle ID: pushes to Wallet passes (pass.…) and to websites (web.…) have rules of their own.")
    var bundleId: BundleID?
    @Option("Check it as a broadcast to a channel that stores nothing, or the latest message.") var broadcast:
        ChannelPolicy?

    func run(_ console: Console) throws {
        let payload = try Payload(file)
        let findings = try findings(in: payload, now: Int64(Date.now.timeIntervalSince1970))
        let errors = findings.count { $0.severity == .error }
        console.show(
            text(findings, of: payload, errors: errors),
            json: [
                "file": .string(file.name), "bytes": .integer(payload.text.utf8.count), "errors": .integer(errors),
                "warnings": .integer(findings.count - errors),
                "findings": .array(findings.map { json($0, of: payload) }),
            ])
        guard errors == 0 else { throw Unsuccessful() }
    }

    private func findings(in payload: Payload, now: Int64) throws(UsageError) -> [Finding] {
        let expiration = expiration.map(Int64.init)
        if let policy = broadcast {
            guard pushType == nil, collapseId == nil, bundleId == nil else {
                throw UsageError("--push-type, --collapse-id and --bundle-id are not for a --broadcast")
            }
            let broadcast = Broadcast(
                payload: payload.text, priority: priority ?? BroadcastRules.defaultPriority, expiration: expiration,
                policy: policy)
            return BroadcastRules.check(broadcast, now: now)
        }
        let message = Message(
            payload: payload.text, pushType: pushType ?? .alert, priority: priority, expiration: expiration,
            collapseID: collapseId, app: bundleId?.text)
        return CampaignMessage.check(message, now: now)
    }

    private func text(_ findings: [Finding], of payload: Payload, errors: Int) -> String {
        // A finding may name a key of a foreign payload, which can have any characters.
        let lines = findings.map { payload.line(for: $0, label: "\($0.severity): ").printable() }
        let most = broadcast == nil ? (pushType ?? .alert).maximumPayloadBytes : BroadcastRules.maximumPayloadBytes
        // For a message in several languages, the size of the longest payload.
        let bytes = CampaignMessage.versions(of: payload.text).map(\.payload.utf8.count).max() ?? 0
        let size = "\(NumberText.grouped(bytes)) of \(NumberText.grouped(most))"
        let counts = "\(errors.counted("error")), \((findings.count - errors).counted("warning"))"
        return (lines + ["\(file.name): \(size) bytes, \(counts)"]).joined(separator: "\n")
    }

    private func json(_ finding: Finding, of payload: Payload) -> JSON {
        let position = payload.position(of: finding)
        return [
            "severity": .string(finding.severity.rawValue), "path": .string(finding.path),
            "line": position.map { .integer($0.line) } ?? .null,
            "column": position.map { .integer($0.column) } ?? .null,
            "problem": .string(finding.problem), "remedy": .string(finding.remedy),
        ]
    }
}
