package import Foundation

/// A file to read; `-` is standard input.
package struct InputFile: ArgumentValue, Equatable, Sendable {
    /// As it was given, and as messages name it.
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

    /// How messages name it.
    package var name: String { path == "-" ? "standard input" : path }

    /// Opens it for reading.
    ///
    /// - Throws: ``UnreadableFile``, in words of the operating system's.
    package func open() throws(UnreadableFile) -> FileHandle {
        if path == "-" { return .standardInput }
        do {
            guard kind != .typeDirectory else { throw UnreadableFile(path: path, kind: kind) }
            return try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
        } catch {
            throw UnreadableFile(path: path, kind: kind)
        }
    }

    /// Reads all of it.
    package func contents() throws(UnreadableFile) -> Data {
        let handle = try open()
        do {
            return try handle.readToEnd() ?? Data()
        } catch {
            throw UnreadableFile(path: path, kind: kind)
        }
    }

    private var kind: FileAttributeType? {
        try? FileManager.default.attributesOfItem(atPath: path)[.type] as? FileAttributeType
    }
}

/// A file that cannot be read, and why.
package struct UnreadableFile: Error, CustomStringConvertible {
    package let path: String
    package let why: String

    init(path: String, kind: FileAttributeType?) {
        self.path = path
        why =
            switch kind {
            case nil: "there is no such file"
            case .typeDirectory: "it is a folder"
            default: "permission denied"
            }
    }

    package var description: String { Messages.fileUnreadable(path, why: why) }
}
