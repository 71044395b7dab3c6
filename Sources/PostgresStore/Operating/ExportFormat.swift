/// The file format of an export.
package enum ExportFormat: Sendable {
    case csv
    case ndjson
}
