import PostgresStore
import QueueCore
import Terminal

/// The options that divide the devices of a campaign into shares.
struct ShareOptions: ParameterGroup {
    @Option(
        "Another payload for a share of the devices, such as b=other.json:20%. Devices in no share get --payload.",
        "NAME=FILE:SHARE")
    var variant: [VariantArgument]
    @Option("The share of the devices that gets nothing, for comparison, such as 10%.") var holdout: Share?

    /// Whether a variant is read from standard input.
    var readsStandardInput: Bool { variant.contains { $0.file.path == "-" } }

    /// - Throws: ``UsageError`` if two variants have the same name or are standard input, or no device is left for the
    ///   payload.
    func check() throws(UsageError) {
        let names = variant.map(\.name)
        if let twice = names.first(where: { name in names.count { $0 == name } > 1 }) {
            throw UsageError("--variant: two variants are called \(twice)")
        }
        guard variant.count(where: { $0.file.path == "-" }) < 2 else {
            throw UsageError("only one --variant can be standard input")
        }
        let taken = variant.reduce(holdout?.fraction ?? 0) { $0 + $1.share.fraction }
        guard taken < 0.999_999_999 else {
            throw UsageError(
                "--variant and --holdout take \(Share(fraction: taken).shown) together, and leave nobody for --payload")
        }
    }

    /// Reads the payloads of the shares, and checks them like the message itself.
    func shares(_ options: MessageOptions, for queue: QueueName, at times: SendingTimes = SendingTimes()) throws
        -> CampaignShares
    {
        CampaignShares(
            variants: try variant.map { variant in
                let message = try options.message(
                    of: Payload(variant.file), for: queue, at: times, isOfCampaign: true)
                return CampaignShares.Variant(
                    name: variant.name, fraction: variant.share.fraction, payload: message.payload)
            }, holdout: holdout?.fraction)
    }
}

/// A variant of a campaign's message on the command line: `b=other.json:20%`.
struct VariantArgument: ArgumentValue, Equatable {
    let name: String
    let file: InputFile
    let share: Share

    static let placeholder = "NAME=FILE:SHARE"
    var shown: String { "\(name)=\(file.path):\(share.shown)" }

    static func parse(_ text: String) throws(InvalidValue) -> VariantArgument {
        // The file's name may contain both separators.
        guard let equals = text.firstIndex(of: "="), let colon = text.lastIndex(of: ":"), equals < colon else {
            throw InvalidValue("is not NAME=FILE:SHARE, such as b=other.json:20%")
        }
        let name = String(text[..<equals])
        guard name.wholeMatch(of: /[A-Za-z0-9][A-Za-z0-9._\-]{0,62}/) != nil, name != "payload", name != "holdout"
        else {
            throw InvalidValue(
                "has no name of 1 to 63 letters, digits, dots, underscores and hyphens (payload and holdout are taken)")
        }
        let share = try Share.parse(String(text[text.index(after: colon)...]))
        guard share.fraction > 0, share.fraction < 1 else { throw InvalidValue("needs a share between 0% and 100%") }
        return VariantArgument(
            name: name, file: try InputFile.parse(String(text[text.index(after: equals)..<colon])), share: share)
    }
}
