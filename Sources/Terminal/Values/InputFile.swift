package import Transport

/// A file to read; `-` is standard input.
package struct InputFile: ArgumentValue, Equatable, Sendable {
    /// The path as it was given.
    package let path: String

    /// The file at `path`.
    package init(_ path: String) {
        self.path = path
    }

    package static var placeholder: String { "FILE" }
    package var shown: String { path }

    package static func parse(_ text: String) throws(InvalidValue) -> InputFile {
        guard !text.isEmpty else { throw InvalidValue(Messages.empty) }
        return InputFile(text)
    }

    /// The name of the file in messages.
    package var name: String { path == "-" ? "standard input" : path }

    /// Opens the file for reading.
    ///
    /// - Throws: ``UnreadableFile``, with the operating system's message.
    package func open() throws(UnreadableFile) -> OpenFile {
        // The system opens a folder without an error, and only fails to read it.
        if path != "-", FileStatus(path)?.isFolder ?? false { throw UnreadableFile(path: path, why: "it is a folder") }
        do throws(OpenFile.Failure) {
            return path == "-" ? try .standardInput() : try .reading(path)
        } catch {
            throw UnreadableFile(path: path, error)
        }
    }

    /// More than any payload, key, certificate, secret or list of databases has: a payload of 4,096 bytes may be one of
    /// many languages, and have as much white space.
    package static let usualBytes = 1_000_000

    /// Reads the whole file, which is a small one. A wrong file may be as large as the memory, or have no end.
    ///
    /// - Throws: ``UnreadableFile``, also if the file has more than `most` bytes.
    package func contents(upTo most: Int = Self.usualBytes) throws(UnreadableFile) -> [UInt8] {
        let file = try open()
        let contents: [UInt8]?
        do throws(OpenFile.Failure) {
            contents = try file.readToEnd(upTo: most)
        } catch {
            throw UnreadableFile(path: path, error)
        }
        guard let contents else { throw UnreadableFile(path: path, why: Messages.tooLong(megabytes: most / 1_000_000)) }
        return contents
    }
}

/// A file that cannot be read, and why.
package struct UnreadableFile: Error, CustomStringConvertible {
    package let path: String
    package let why: String

    fileprivate init(path: String, why: String) {
        self.path = path
        self.why = why
    }

    init(path: String, _ failure: OpenFile.Failure) {
        let words = failure.description.prefix(1).lowercased() + failure.description.dropFirst()
        self.init(
            path: path,
            why: failure.isMissing
                ? "there is no such file" : failure.isClosed && path == "-" ? Messages.inputIsClosed : words)
    }

    package var description: String { Messages.fileUnreadable(path == "-" ? "standard input" : path, why: why) }
}
