extension EntityDeclaration.Property {
    /// Declares an attribute. For the macro `@Entity`; the parameters are those of `@Attribute`.
    public static func attribute<Value: AttributeRepresentable>(
        _ name: String, key: String? = nil, _ type: Value.Type, isOptional: Bool,
        default defaultValue: Value? = nil, minimum: Value? = nil, maximum: Value? = nil,
        length: (any RangeExpression<Int>)? = nil, regex: String? = nil,
        renamingIdentifier: String? = nil, options: AttributeOptions = []
    ) -> Self {
        declare(
            name, key: key, types: Value.attributeTypes, isOptional: isOptional,
            defaultValue: defaultValue?.attributeValue, renamingIdentifier, options
        ) { attribute in
            attribute.minimum = minimum?.attributeValue ?? .null
            attribute.maximum = maximum?.attributeValue ?? .null
            attribute.regularExpression = regex
            if let length {
                let bounds = length.relative(to: 0..<Int.max)
                if bounds.lowerBound > 0 {
                    attribute.minimum = .integer(Int64(bounds.lowerBound))
                }
                if bounds.upperBound < Int.max {
                    attribute.maximum = .integer(Int64(bounds.upperBound - 1))
                }
            }
        }
    }

    /// Declares an attribute that holds raw values.
    public static func attribute<Value: RawRepresentable>(
        _ name: String, key: String? = nil, _ type: Value.Type, isOptional: Bool,
        default defaultValue: Value? = nil, renamingIdentifier: String? = nil,
        options: AttributeOptions = []
    ) -> Self where Value.RawValue: AttributeRepresentable {
        declare(
            name, key: key, types: Value.RawValue.attributeTypes, isOptional: isOptional,
            defaultValue: defaultValue?.rawValue.attributeValue, renamingIdentifier, options)
    }

    /// Explains that a property has a type that no attribute can have.
    @available(*, unavailable, message: "no attribute can have this type")
    @_disfavoredOverload
    public static func attribute<Value>(
        _ name: String, key: String? = nil, _ type: Value.Type, isOptional: Bool,
        default defaultValue: Value? = nil, minimum: Value? = nil, maximum: Value? = nil,
        length: (any RangeExpression<Int>)? = nil, regex: String? = nil,
        renamingIdentifier: String? = nil, options: AttributeOptions = []
    ) -> Self {
        preconditionFailure("Never called: it is unavailable.")
    }

    private static func declare(
        _ name: String, key: String?, types: [AttributeType], isOptional: Bool,
        defaultValue: AttributeValue?, _ renamingIdentifier: String?,
        _ options: AttributeOptions,
        _ adjust: (inout AttributeDescription) -> Void = { _ in }
    ) -> Self {
        var attribute = AttributeDescription(name: key ?? name, type: types.first ?? .undefined)
        attribute.isOptional = isOptional
        attribute.defaultValue = defaultValue ?? .null
        attribute.renamingIdentifier = renamingIdentifier
        attribute.isTransient = options.contains(.transient)
        attribute.allowsExternalBinaryDataStorage = options.contains(.externalStorage)
        attribute.allowsCloudEncryption = options.contains(.allowsCloudEncryption)
        attribute.preservesValueInHistoryOnDeletion =
            options.contains(.preservesValueInHistoryOnDeletion)
        adjust(&attribute)
        return Self(
            name, types: types, description: attribute, isUnique: options.contains(.unique),
            isIndexed: options.contains(.indexed))
    }
}
