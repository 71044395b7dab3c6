package import PostgresStore
import QueueCore
import Transport

/// The databases of an installation: one, or several that share nothing.
package struct DatabaseList: ParameterGroup {
    @Option(
        "The database, as postgres://user@host/name; repeat it for several databases. By default PUSHQ_DATABASE_URL, else libpq's PGHOST, PGDATABASE, …",
        "URL")
    var databaseUrl: [ConnectionString]
    @Option(
        "A file with one database URL per line, for several databases. Lines that begin with # are comments.",
        "FILE")
    var databases: InputFile?

    package init() {}

    /// Whether there is a file that can be read again. A pipe can be read only once.
    package var mayChange: Bool { databases.map { $0.path != "-" && FileStatus($0.path)?.isRegular ?? false } ?? false }

    /// The warning about a file that other users have access to; nil if there is none.
    package var warning: String? { databases.flatMap { SecretFile($0.path).warning } }

    /// Returns the addresses. Throws if one is named twice. The first database keeps the provider tokens.
    package func addresses() throws -> [DatabaseAddress] {
        var addresses = try databaseUrl.map { try DatabaseAddress(url: $0.text) }
        if let databases {
            let listed = try read(databases)
            guard !listed.isEmpty else { throw Failure("\(databases.name) names no database") }
            addresses += listed
        }
        guard !addresses.isEmpty else { return [try DatabaseAddress(url: nil)] }
        var seen: Set<String> = []
        for address in addresses where !seen.insert(address.description).inserted {
            throw Failure("\(address.description) is named twice")
        }
        return addresses
    }

    /// Says that two addresses of the list, which look different, lead to one database.
    package static func namedTwice(_ address: DatabaseAddress, as first: DatabaseAddress) -> String {
        "\(address.place) is \(first.place), under another address: name it once"
    }

    /// Reads the file. URLs may contain passwords, so an error names only the line.
    private func read(_ file: InputFile) throws -> [DatabaseAddress] {
        let text = String(decoding: try file.contents(), as: UTF8.self)
        // Editors of Windows begin a file with a byte order mark.
        let lines = text.drop { $0 == "\u{FEFF}" }.split(
            omittingEmptySubsequences: false, whereSeparator: \.isNewline)
        return try lines.enumerated().compactMap { index, line in
            let url = line.trimmed()
            guard !url.isEmpty, !url.hasPrefix("#") else { return nil }
            guard !url.contains(/\s#/) else {
                throw Failure(
                    "\(file.name), line \(index + 1): a comment follows the address: write it in a line of its own")
            }
            do throws(PostgresError) {
                return try DatabaseAddress(url: url)
            } catch {
                throw Failure("\(file.name), line \(index + 1): \(error)")
            }
        }
    }
}
