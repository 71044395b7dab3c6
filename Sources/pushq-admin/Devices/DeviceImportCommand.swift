import PostgresStore
import QueueCore
import Terminal

struct DeviceImportCommand: Command {
    static let name = "import"
    static let users = CommandUsers.operators(
        because: "an import writes to the table of devices; register yours with pushq.register_device")
    static let summary = "Adds the devices of a CSV or NDJSON file, all or none."
    static let discussion = """
        A CSV file has a header with a column 'token' and any of the columns user_key, active, kind, locale, \
        time_zone, app_version, tags, attributes, installation, activity_type, activity, first_seen_at, seen_at. \
        Columns are separated by commas, semicolons or tabs; tags by |, or they are a JSON array; attributes are a \
        JSON object; times are like 2026-11-21T09:30:00Z, and a time more than a day in the future makes a line wrong. \
        NDJSON has an object with these names on each line. A file without a header has one token per line. A \
        quotation mark opens a field only at its beginning; elsewhere it is text. 'export' writes both. If a token \
        occurs twice, its last line counts. New devices whose 'active' is false are imported as inactive. An empty \
        field changes nothing.

        If lines are wrong, the command lists them and imports nothing. With --keep-going it imports the other lines, \
        and the exit code is still 1.

        Known devices get what the file says, and those whose 'active' is false are deactivated. Tags and attributes \
        belong to the user: if the file gives a device to another user, those from before are removed. But if an app \
        has registered a device (pushq.register_device), it keeps the user, the kind, the locale and the like that \
        the app named, because the file may be older; only its tags and attributes change, unless the file names \
        another user. It also stays active, unless the line has a seen_at that is not before the registration: \
        'kept_active' counts such devices, and 'device deactivate' deactivates them. Inactive devices stay inactive \
        unless you pass --reactivate, which also keeps devices active about which a report of APNs is still on its \
        way. But a device that its app has registered stays inactive if the app has registered a newer token since, \
        if its user has logged out, or if somebody has deactivated it: 'kept_inactive' counts such devices, and \
        'device reactivate' brings single ones back.

        An installation has one active token of each kind, or a person would get each push twice. If there are \
        several after the import, one stays: the token that the app has registered, else the one with the latest \
        seen_at. If one of them has none, a token of this file goes before those of earlier files, and the last line \
        before others without seen_at. 'replaced' counts the others, which are deactivated; they make room for new \
        ones in a quota. The one that stays gets what is known only of them, such as tags and locale, if its user is \
        the same and no app has registered it.

        While the file is read, nobody waits for it. After that, registrations of its devices wait until all of them \
        are imported. If another transaction holds one of them for long, the import lets go of the others and tries \
        again later, for up to ten minutes.

        Of a file of bare tokens for a queue without devices, up to 2 million tokens are read into memory, which \
        takes 150 MB.

        A time zone that is unknown makes a line wrong, while pushq.register_device registers the device without it: \
        nobody would see its notice for a file. Importing is not a registration: if APNs reports that an imported token died before the import, the \
        device is deactivated.
        """
    static let examples = [
        "device import acme/com.acme.shop/production devices.csv",
        "device import acme/com.acme.shop/production - --reactivate",
        "device import acme/com.acme.shop/production devices.ndjson --keep-going",
    ]

    @Positional("The queue: tenant/app/environment.") var queue: QueueName
    @Positional("The file; - is standard input.") var file: InputFile
    @Flag("Reactivate inactive devices, also those that APNs has reported as dead.") var reactivate
    @Flag("Import the other lines if some are wrong.") var keepGoing
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        do {
            try await importDevices(console)
        } catch let refused as RefusedLines {
            Self.tell(refused.refusals, of: refused.count, console)
            throw Failure(
                "\(NumberText.grouped(refused.count)) lines are wrong, so nothing was imported; --keep-going imports the others"
            )
        }
    }

    private static func tell(_ refusals: [DeviceFileError], of count: Int, _ console: Console) {
        for refusal in refusals { console.remark("\(refusal)") }
        if count > refusals.count { console.remark("and \(NumberText.grouped(count - refusals.count)) more lines") }
    }

    private func importDevices(_ console: Console) async throws {
        let (queue, reactivates, keepsGoing) = (queue, reactivate, keepGoing)
        let devices = try file.devices()
        let started = ContinuousClock.now
        let summary = try await database.session { store in
            let bar = ProgressBar("reading", total: nil, on: console)
            defer { bar.finish() }
            return try await store.importDevices(
                from: devices, inQueue: queue, reactivates: reactivates, keepsGoing: keepsGoing
            ) { bar.update($0) }
        }
        let seconds = (ContinuousClock.now - started).seconds
        console.show([
            ("read", .count(summary.read)), ("new", .count(summary.new)), ("changed", .count(summary.changed)),
            ("unchanged", .count(summary.unchanged)), ("inactive", .count(summary.inactive)),
            ("kept_by_app", .count(summary.keptByApp)), ("kept_active", .count(summary.keptActive)),
            ("kept_inactive", .count(summary.keptInactive)), ("profiles", .count(summary.profiles)),
            ("replaced", .count(summary.replaced)),
            ("refused", .count(summary.refused)), ("seconds", .decimal(seconds, places: 2)),
        ])
        if summary.keptActive > 0 {
            console.remark(
                "\(summary.keptActive.counted("device")) that the file calls inactive stayed active, because the app "
                    + "has registered them, and the file does not say that it is newer; to deactivate them all the "
                    + "same: pushq-admin device deactivate \(queue) TOKEN…")
        }
        guard summary.refused == 0 else {
            Self.tell(summary.refusals, of: summary.refused, console)
            throw Unsuccessful()
        }
    }
}
