import PostgresStore
import QueueCore
import Terminal

struct DeviceImportCommand: Command {
    static let name = "import"
    static let summary = "Adds the devices of a CSV file, all or none."
    static let discussion = """
        The file has a header with a column 'token' and, optionally, columns 'user_key' and 'active'. Columns are \
        separated by commas, semicolons or tabs. A file without a header has one token per line. If a token occurs \
        twice, its last line counts. New devices whose 'active' is false are imported as inactive.

        Known devices do not change, except that they get the user key of the file. If an app has registered a device \
        (pushq.register_device), the device keeps the user whom the app named, because the file may be older. Inactive \
        devices stay inactive unless you pass --reactivate, which also keeps devices active about which a report of \
        APNs is still on its way. Importing is not a registration: if APNs reports that an imported token died before \
        the import, the device is deactivated.
        """
    static let examples = [
        "device import acme/com.acme.shop/production devices.csv",
        "device import acme/com.acme.shop/production - --reactivate",
    ]

    @Positional("The queue: tenant/app/environment.") var queue: QueueName
    @Positional("The file; - is standard input.") var file: InputFile
    @Flag("Reactivate inactive devices, no matter what APNs reported about them before.") var reactivate
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let (queue, reactivates) = (queue, reactivate)
        let devices = try file.devices()
        let started = ContinuousClock.now
        let summary = try await database.session { store in
            let bar = ProgressBar("reading", total: nil, on: console)
            defer { bar.finish() }
            return try await store.importDevices(from: devices, inQueue: queue, reactivates: reactivates) {
                count in
                bar.update(count)
            }
        }
        let seconds = (ContinuousClock.now - started).seconds
        console.show([
            ("read", .count(summary.read)), ("new", .count(summary.new)), ("changed", .count(summary.changed)),
            ("unchanged", .count(summary.unchanged)), ("inactive", .count(summary.inactive)),
            ("kept_by_app", .count(summary.keptByApp)),
            ("seconds", .decimal(seconds, places: 2)),
        ])
    }
}
