package import Transport

/// A network on a command line: `10.20.0.0/16`, or a single address.
extension AddressBlock: ArgumentValue {
    package static var placeholder: String { "CIDR" }
    package var shown: String { description }

    package static func parse(_ text: String) throws(InvalidValue) -> AddressBlock {
        guard let block = AddressBlock(text) else { throw InvalidValue(Messages.notANetwork) }
        return block
    }
}
