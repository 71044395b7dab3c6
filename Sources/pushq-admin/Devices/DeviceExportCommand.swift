import PostgresStore
import QueueCore
import Terminal

struct DeviceExportCommand: Command {
    static let name = "export"
    static let users = CommandUsers.tenants
    static let summary = "Writes the devices of a queue as a CSV file, or with --json as NDJSON; 'import' reads both."
    static let discussion = """
        The devices are read page by page. An installation whose token is replaced \
        meanwhile may be in the file with both tokens; 'import' keeps one of them.
        """
    static let examples = [
        "device export acme/com.acme.shop/production --all", "device export acme/com.acme.shop/production --json",
    ]

    @Positional("The queue: tenant/app/environment.") var queue: QueueName
    @Flag("List inactive devices, too.") var all
    var database = DatabaseOptions()

    /// A page of this size usually has less than a megabyte, and takes a few milliseconds.
    private static let pageSize = 5000

    func run(_ console: Console) async throws {
        let (queue, format) = (queue, console.speaksJSON ? ExportFormat.ndjson : .csv)
        try await database.session { store in
            // Read before the header is written, because an unknown queue gets none.
            var page = try await store.exportDevices(
                ofQueue: queue, as: format, after: 0, includesInactive: all, limit: Self.pageSize)
            if let header = format.deviceHeader { console.print(header) }
            while let devices = page {
                console.print(rows: devices.lines)
                try console.checkOutput()
                page = try await store.exportDevices(
                    ofQueue: queue, as: format, after: devices.last, includesInactive: all, limit: Self.pageSize)
            }
        }
    }
}
