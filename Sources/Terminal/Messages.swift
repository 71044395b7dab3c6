/// All sentences of the parser and the shared parts of the executables, in one place, so that their tone is consistent.
package enum Messages {
    // MARK: Help

    static let usageTitle = "Usage:"
    static let commandsTitle = "Commands:"
    static let argumentsTitle = "Arguments:"
    static let optionsTitle = "Options:"
    static let everywhereTitle = "Global options:"
    static let examplesTitle = "Examples:"
    static let everywhere = [
        ("--json", "Print JSON instead of text."),
        ("--help", "Show this help."),
    ]
    static let version = ("--version", "Show the version.")

    static func more(_ path: [String]) -> String {
        "'\(path.joined(separator: " ")) help COMMAND' shows more about a command."
    }

    // MARK: Usage errors: what is wrong, without a full stop

    static func usage(problem: String, remedy: String) -> String {
        "\(problem)\(problem.hasSuffix("?") ? "" : ".") Try: \(remedy)"
    }

    static func commandMissing(_ path: [String]) -> String {
        "'\(path.joined(separator: " "))' needs a command"
    }

    static func unknownCommand(_ word: String, nearest: String) -> String {
        "there is no command '\(brief(word))'; did you mean '\(nearest)'?"
    }

    static func unknownCommand(_ word: String, among names: [String]) -> String {
        "there is no command '\(brief(word))' (there are \(names.joined(separator: ", ")))"
    }

    /// - Parameter mayBeArgument: whether the command takes another argument, which the word may have been meant for.
    static func unknownOption(_ word: String, nearest: String?, mayBeArgument: Bool) -> String {
        let advice = mayBeArgument ? "; an argument that begins with a hyphen goes behind --" : ""
        return "there is no option '\(brief(word))'" + (nearest.map { "; did you mean '\($0)'?" } ?? advice)
    }

    static func brokenArgument(_ number: Int) -> String { "argument \(number) is not UTF-8 text" }
    static func missing(_ usage: String) -> String { "\(usage) is missing" }
    static func unexpected(_ word: String) -> String { "unexpected argument '\(brief(word))'" }
    static func valueMissing(_ usage: String) -> String { "\(usage) needs a value" }
    static func flagWithValue(_ name: String) -> String { "\(name) takes no value" }

    static func invalid(_ name: String, value: String?, reason: String) -> String {
        value.map { "\(name) '\(brief($0))' \(reason)" } ?? "\(name) \(reason)"
    }

    // MARK: Invalid values: what follows the parameter and its value

    static let givenTwice = "is given twice"
    static let notAWholeNumber = "is not a whole number"
    static let tooLarge = "is too large: use a number up to \(Int.max)"
    static let notACount = "is not a whole number above 0"
    static let notANumber = "is not a number"
    static let notADuration = "is not a duration such as 250ms, 30s, 5m, 2h or 7d; without a unit it is in seconds"
    static func noSchema(in place: String) -> String {
        "there is no pushq in \(place): name the right database with PUSHQ_DATABASE_URL or --database-url, or set this "
            + "one up with: pushq-admin migrate"
    }

    static func tooLong(_ longest: Duration) -> String { "is longer than \(longest.shown)" }
    static let notHostAndPort = "is not a host and a port, such as 127.0.0.1:2197 or [::1]:2197"
    static let notAListenAddress =
        "is not an address to listen on, such as 9464, 127.0.0.1:9464, [::1]:9464 or unix:/run/pushq/metrics.sock"
    static let notANetwork = "is not a network, such as 10.20.0.0/16 or fd12:3456::/32, without bits behind the prefix"
    static let notAPort = "is not a port, 0 to 65535"
    static let notARate =
        "is not a rate above 0 in pushes a second, such as 250 or 0.5, or per minute or hour, such as 6000/min"
    static let notAFrequencyCap =
        "is not a number of pushes per period, such as '3 per 1 day', '1 per 12 hours' or '3 per calendar day'"
    static let frequencyCapPushes = "must allow 1 to 100 pushes"
    static let frequencyCapPeriod = "must have a period between a minute and 31 days"
    static let notQuietHours = "is not a range of times of the day, such as 22:00-08:00"
    static let quietHoursLength = "is not between a minute and 20 hours long"
    static let notAShare = "is not a share between 0 and 1, or a percentage such as 5%"
    static let notATime = "is not a time such as 2026-03-01T09:00:00Z or 2026-03-01T10:00:00+01:00"
    static let noSuchTime = "names a day or a time of day that does not exist"
    static let empty = "is empty"
    static let notAnAPNsID = "is not an apns-id of pushq, such as 00000000-0000-800f-8000-000000000001"
    static let notATenant =
        "is not a tenant's name: 1 to 63 of a-z, 0-9, -, _ and dots, beginning with a letter or digit"
    static let notAChannel = "is not a channel ID as Apple gives it, 1 to 200 characters of base64"
    static let notABundleID =
        "is not a bundle ID: A-Z, a-z, 0-9 and - with dots between, 155 at most, such as com.acme.shop"

    static func notAQueue(_ part: String) -> String {
        "is not a queue of the form tenant/app/environment, such as acme/com.acme.shop/production: \(part)"
    }

    static func notOne(of names: [String]) -> String {
        names.count == 1
            ? "must be \(names[0])" : "must be one of \(names.joined(separator: ", "))"
    }

    // MARK: Settings

    static let masterKeyMissing =
        "no master key: credentials are sealed with one, which only operators have. Set PUSHQ_MASTER_KEY_FILE to the "
        + "file that has it. Only for a new installation, make it with '\(newMasterKey)'"

    /// A shell command that overwrites no key.
    package static let newMasterKey = "(umask 077; set -C; openssl rand -hex 32 > master.key)"

    static func masterKeyInvalid(_ source: String) -> String {
        "the master key in \(source) is not 32 bytes written as 64 hexadecimal digits, or several of these. Only for a "
            + "new installation, make one with '\(newMasterKey)'"
    }

    /// Returns a mode in octal, as for `chmod`.
    private static func octal(_ mode: Int) -> String { "0" + String(mode, radix: 8) }

    static func masterKeyExposed(_ path: String, mode: Int) -> String {
        "the master key is not read from \(path), since its mode \(octal(mode)) gives others access to it. Run 'chmod 600 \(path)'; "
            + "if others may have read it, change the key: pushq-admin credential rotate-master"
    }

    /// - Parameter isOwn: whether this process's user owns the file and can change its mode. A file of another user has
    ///   to stay readable for this one.
    static func secretExposed(_ path: String, mode: Int, isOwn: Bool) -> String {
        "the mode \(octal(mode)) of \(path) gives others access to the secret in it. "
            + (isOwn
                ? "Run 'chmod 600 \(path)'"
                : "Have its owner give it to a group of this user and run 'chmod 640 \(path)'")
    }

    static func severalPrimaries(_ servers: String, used: String) -> String {
        "several servers accept writes: \(servers). This command uses \(used); let nobody write to the other, and see: "
            + "pushq-admin doctor"
    }

    static func passwordFileExposed(_ path: String, mode: Int) -> String {
        "no password is read from \(path), since its mode \(octal(mode)) gives others access to it. Run 'chmod 600 \(path)'"
    }

    static func serversNotVerified(_ hosts: [String]) -> String {
        "the server's certificate is not verified: whoever is on the way to \(hosts.joined(separator: ", ")) can pose "
            + "as the database. Add sslmode=verify-full to its address"
    }

    static let inputIsClosed = "it is closed: pipe something into it, or name a file"

    static func fileUnreadable(_ path: String, why: String) -> String {
        "cannot read \(withoutSecrets(path)): \(why)"
    }

    static func tooLong(megabytes: Int) -> String {
        "it has more than \(megabytes) MB, so it is another file than is wanted here"
    }

    // MARK: Confirmation: `loss` is the end of a sentence that begins with “this”

    static func confirmation(_ loss: String) -> String { "This \(loss). Continue? [y/N]" }

    static func confirmationMissing(_ loss: String) -> String {
        "this \(loss); nothing was changed: pass --yes to do it"
    }

    static let notConfirmed = "nothing was changed"

    // MARK: Running

    static func outputFailed(_ reason: String) -> String {
        "cannot write the output: \(reason)"
    }

    static func warning(_ text: String) -> String { "warning: \(text)" }

    static func failure(_ command: String, _ text: String) -> String {
        "\(command): \(text)"
    }

    /// Returns a word for an error: one line without secrets, cut to the length that is needed to recognise it.
    private static func brief(_ word: String) -> String {
        let line = String(withoutSecrets(word).map { $0.isNewline || $0.isASCIIControl ? " " : $0 })
        return line.count > 40 ? "\(line.prefix(40))…" : line
    }

    /// Returns a word of the command line with asterisks for passwords and most digits of device tokens, as `ps` shows
    /// it. Both are easily typed where something else is expected, and the error of a worker stays in its journal.
    package static func withoutSecrets(_ word: String) -> String {
        var bytes = Array(word.utf8)
        for position in ConnectionPassword.positions(in: bytes) + TokenDigits.positions(in: bytes) {
            bytes[position] = UInt8(ascii: "*")
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension Character {
    fileprivate var isASCIIControl: Bool {
        asciiValue.map { $0 < 0x20 || $0 == 0x7F } ?? false
    }
}
