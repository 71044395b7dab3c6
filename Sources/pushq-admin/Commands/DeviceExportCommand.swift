import PostgresStore
import QueueCore
import Terminal

struct DeviceExportCommand: Command {
    static let name = "export"
    static let summary = "Writes the devices of a queue as a CSV file that 'import' can read."
    static let examples = ["device export acme/com.acme.shop/production --all"]

    @Positional("The queue: tenant/app/environment.") var queue: QueueName
    @Flag("List inactive devices, too.") var all
    var database = DatabaseOptions()

    /// A page of this size is a few megabytes, and takes a few dozen milliseconds.
    private static let pageSize = 20_000

    func run(_ console: Console) async throws {
        let queue = queue
        try await database.session { store in
            if !console.speaksJSON { console.print("token,user_key,active") }
            var last: Int64 = 0
            while true {
                let page = try await store.devices(
                    inQueue: queue, after: last, userKey: nil, includesInactive: all, limit: Self.pageSize)
                try console.checkOutput()
                guard let end = page.last else { return }
                console.print(page.map { console.speaksJSON ? Self.json($0) : Self.csv($0) }.joined(separator: "\n"))
                last = end.id
            }
        }
    }

    private static func csv(_ device: Device) -> String {
        let userKey = device.userKey ?? ""
        let isPlain = !userKey.contains { $0 == "," || $0 == "\"" || $0.isNewline }
        let quoted =
            isPlain
            ? userKey
            : "\"\(userKey.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\""))\""
        return "\(device.token.hex),\(quoted),\(device.isActive)"
    }

    /// One object per line: a reader would have to hold one array of a million in memory.
    private static func json(_ device: Device) -> String {
        let value: JSON = [
            "token": .string(device.token.hex), "user_key": Cell.text(device.userKey).json,
            "active": .bool(device.isActive),
        ]
        return value.text
    }
}
