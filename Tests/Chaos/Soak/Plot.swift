import Foundation

/// A plot of a table: one curve below the other, each from zero to its largest value, over the table's first column.
struct Plot {
    let columns: [String]
    let rows: [[Double]]

    private static let (width, height, margin) = (640.0, 70.0, 150.0)

    /// The picture as SVG.
    var svg: String {
        let curves = columns.indices.dropFirst().map { curve(of: $0) }.joined(separator: "\n")
        let total = Self.height * Double(columns.count - 1) + 40
        return """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(Self.margin + Self.width + 20) \(total)" \
            font-family="sans-serif" font-size="12">
            <rect width="100%" height="100%" fill="white"/>
            \(curves)
            <text x="\(Self.margin + Self.width)" y="\(total - 8)" text-anchor="end">\(Self.text(lastX)) \(columns[0])s</text>
            </svg>

            """
    }

    private var lastX: Double { rows.last?[0] ?? 0 }

    private func curve(of column: Int) -> String {
        let top = Double(column - 1) * Self.height + 16
        let bottom = top + Self.height - 24
        let most = max(rows.map { $0[column] }.max() ?? 0, 1e-9)
        let points = rows.map { row in
            let x = Self.margin + row[0] / max(lastX, 1e-9) * Self.width
            let y = bottom - row[column] / most * (bottom - top)
            return "\(Self.text(x)),\(Self.text(y))"
        }
        return """
            <text x="8" y="\(top + 12)">\(columns[column])</text>
            <text x="8" y="\(top + 28)" fill="gray">up to \(Self.text(most))</text>
            <line x1="\(Self.margin)" x2="\(Self.margin + Self.width)" y1="\(bottom)" y2="\(bottom)" stroke="lightgray"/>
            <polyline fill="none" stroke="steelblue" stroke-width="1.5" points="\(points.joined(separator: " "))"/>
            """
    }

    /// Returns a number in the form of the plot and its table.
    static func text(_ number: Double) -> String {
        number.formatted(.number.precision(.fractionLength(number < 100 ? 1 : 0)).grouping(.never))
    }
}
