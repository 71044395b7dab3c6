// Writes a Swift file that holds every SQL file it is given as a raw string literal.
//
// SwiftPM's own `.embedInCode` writes an array of bytes, which takes the compiler minutes for a few hundred
// kilobytes, and drops the leading digit of the file names.
import Foundation

@main
enum EmbedSQL {
    /// Arguments: the output file, the folder of the SQL files, and these files.
    static func main() throws {
        let arguments = CommandLine.arguments.dropFirst()
        guard arguments.count >= 2, let output = arguments.first else {
            throw CocoaError(.fileNoSuchFile)
        }
        let folder = URL(fileURLWithPath: arguments[2]).path + "/"
        var source = "// Generated from migrations/ by the EmbedMigrations plugin.\n\n"
        source += "enum EmbeddedMigrations {\n    static let files: [(name: String, sql: String)] = [\n"
        for path in arguments.dropFirst(2) {
            // The path within the folder, without its ending: `functions/send`.
            let name = URL(fileURLWithPath: path).deletingPathExtension().path.dropFirst(folder.count)
            let sql = try String(contentsOfFile: path, encoding: .utf8)
            source += "        (\"\(name)\", ####\"\"\"\n\(sql)\n\"\"\"####),\n"
        }
        source += "    ]\n}\n"
        try source.write(toFile: output, atomically: true, encoding: .utf8)
    }
}
