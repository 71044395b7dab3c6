import Foundation
import PackagePlugin

/// Puts files of a folder and its subfolders into a target as strings, sorted by path, so that the executables carry
/// what they need and no list of files is kept by hand.
@main
struct EmbedFiles: BuildToolPlugin {
    /// What is embedded into which target: the folder, the endings of its files, and the type that has them.
    private static let contents: [String: (folder: String, endings: [String], type: String)] = [
        "PostgresStore": ("migrations", [".sql"], "EmbeddedMigrations"),
        "OperatorViews": ("dashboard", [".html", ".css", ".js", ".svg"], "EmbeddedDashboard"),
    ]

    func createBuildCommands(context: PluginContext, target: Target) throws -> [Command] {
        guard let content = Self.contents[target.name] else { return [] }
        let folder = context.package.directoryURL.appending(path: content.folder)
        let files = try FileManager.default.subpathsOfDirectory(atPath: folder.path(percentEncoded: false))
            .filter { name in content.endings.contains { name.hasSuffix($0) } }
            .sorted()
            .map { folder.appending(path: $0) }
        let output = context.pluginWorkDirectoryURL.appending(path: "\(content.type).swift")
        let paths = { (urls: [URL]) in urls.map { $0.path(percentEncoded: false) } }
        return [
            .buildCommand(
                displayName: "Embedding \(files.count) files of \(content.folder)",
                executable: try context.tool(named: "EmbedFiles").url,
                arguments: paths([output]) + [content.type] + paths([folder] + files), inputFiles: files,
                outputFiles: [output])
        ]
    }
}
