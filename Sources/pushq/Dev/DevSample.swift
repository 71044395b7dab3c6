import FoundationEssentials
import LocalStack
import QueueCore
import Terminal

/// The sample data of a developer's installation: devices of users, campaigns that have ended, that run and that wait
/// for a local time, and a schedule.
struct DevSample: Sendable {
    static let queue = QueueName(tenant: "acme", app: "com.acme.shop", environment: .production)
    static let endedCampaign = "spring-sale"
    /// The user who did not get the first campaign: the app was deleted from the device.
    static let unluckyUser = "42"

    /// The prefix of the tokens of devices from which the app was deleted.
    private static let deadPrefix = "dead"

    /// The rules in the format of `pushq simulate --rules`.
    static let rules = """
        {"latency_ms": [5, 40], "outcomes": [
            {"token_prefix": "\(deadPrefix)", "reason": "Unregistered"},
            {"share": 0.01, "reason": "BadDeviceToken"},
            {"probability": 0.02, "reason": "TooManyRequests"}
        ]}
        """

    let stack: Stack
    /// The executable `pushq-admin`.
    let admin: String
    let reaper: Reaper

    /// Creates the sample data with the commands, as users do. Returns when the first campaign has ended.
    func make() async throws {
        let devices = try write(Self.devices, to: "devices.csv")
        let payload = try write(
            #"{"aps": {"alert": {"title": "Spring sale", "body": "Everything at half price"}}}"#, to: "payload.json")
        let (pushq, queue) = (try Stack.ownExecutable(), "\(Self.queue)")
        try await run(admin, ["device", "import", queue, devices])
        let campaign = ["campaign", queue, "--payload", payload, "--audience", "all", "--key"]
        try await run(pushq, campaign + [Self.endedCampaign, "--wait", "--timeout", "2m"])
        // The rate is so low that the campaign can be watched for an hour.
        try await run(pushq, campaign + ["summer-preview", "--max-rate", "0.5"])
        // Sent in waves, as the time comes in each time zone.
        try await run(pushq, campaign + ["good-morning", "--local-time", "07:30"])
        try await run(
            pushq,
            [
                "schedule", "add", queue, "weekly-offer", "--cron", "0 9 * * mon", "--time-zone", "Europe/Vienna",
                "--payload", payload, "--filter", "locale = 'de'",
            ])
    }

    private func run(_ executable: String, _ arguments: [String]) async throws {
        let environment = stack.environment(databaseURL: stack.databaseURL)
        try await ProcessCommand(executable, arguments, environment: environment).run(registeredWith: reaper)
    }

    private func write(_ text: String, to name: String) throws -> String {
        let path = "\(stack.folder)/\(name)"
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        return path
    }

    /// Two thousand devices, each of another user.
    private static var devices: String {
        let locales = ["en", "de", "fr", "ja"]
        let zones = ["America/New_York", "Europe/Vienna", "Europe/Paris", "Asia/Tokyo"]
        return (1...2000).reduce(into: "token,user_key,locale,time_zone,tags\n") { text, user in
            let prefix = "\(user)" == unluckyUser || user.isMultiple(of: 97) ? deadPrefix : "beef"
            let number = String(user, radix: 16)
            let token = prefix + String(repeating: "0", count: 60 - number.count) + number
            let place = user % locales.count
            text += "\(token),\(user),\(locales[place]),\(zones[place]),\(user.isMultiple(of: 10) ? "vip" : "")\n"
        }
    }
}
