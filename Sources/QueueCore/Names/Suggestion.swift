/// Finds the word that a misspelt word probably stands for.
package enum Suggestion {
    /// The candidate nearest to `word`, if it is near enough for a misspelling: a third of its letters, at most two,
    /// may differ.
    package static func nearest(to word: String, among candidates: [String]) -> String? {
        let allowed = min(2, max(1, word.count / 3))
        let scored = candidates.map { (distance(word, $0), $0) }
        return scored.filter { $0.0 <= allowed }.min { $0.0 < $1.0 }?.1
    }

    /// The number of insertions, removals, replacements and swaps of neighbours that turn one word into the other (the
    /// optimal string alignment distance).
    package static func distance(_ first: String, _ second: String) -> Int {
        let first = Array(first)
        let second = Array(second)
        var rows = [Array(0...second.count)]
        for i in 0..<first.count {
            var row = [i + 1]
            for j in 0..<second.count {
                let replaced = rows[i][j] + (first[i] == second[j] ? 0 : 1)
                var best = min(replaced, rows[i][j + 1] + 1, row[j] + 1)
                if i > 0, j > 0, first[i] == second[j - 1], first[i - 1] == second[j] {
                    best = min(best, rows[i - 1][j - 1] + 1)
                }
                row.append(best)
            }
            rows.append(row)
        }
        return rows[first.count][second.count]
    }
}
