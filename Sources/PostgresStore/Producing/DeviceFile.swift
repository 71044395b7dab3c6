/// A file of devices, read piece by piece.
package struct DeviceFile: Sendable {
    let name: String
    package let next: @Sendable () throws -> [UInt8]?

    /// - Parameters:
    ///   - name: the file name with which errors begin.
    ///   - next: returns the next piece, or nil at the end.
    package init(name: String, next: @escaping @Sendable () throws -> [UInt8]?) {
        self.name = name
        self.next = next
    }
}
