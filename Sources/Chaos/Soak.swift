import Foundation
import LocalStack
import TestSupport

/// Works for a long time and looks whether anything grows.
struct Soak {
    let minutes: Double
    let folder: String

    func run() async throws {}
}
