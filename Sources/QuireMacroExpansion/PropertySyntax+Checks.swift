internal import SwiftDiagnostics
internal import SwiftSyntax
internal import SwiftSyntaxBuilder
internal import SwiftSyntaxMacros

extension PropertySyntax {
    /// Whether accessors can be made; if a context is given, it is told why not.
    func isSound(in context: (any MacroExpansionContext)? = nil) -> Bool {
        isVariable(context) && isStored(context) && hasFittingType(context)
            && hasFittingInverse(context)
    }

    private var title: String { "@\(kind.rawValue)" }

    // MARK: The declaration

    private func isVariable(_ context: (any MacroExpansionContext)?) -> Bool {
        let specifier = declaration.bindingSpecifier
        if specifier.tokenKind == .keyword(.let) {
            context?.complain(
                specifier,
                Complaint("let", "\(title) needs a “var”: the object's values can change"),
                remedy: "Replace “let” by “var”",
                [.replace(specifier, by: TokenSyntax.keyword(.var))])
            return false
        }
        for modifier in declaration.modifiers
        where [.keyword(.static), .keyword(.class)].contains(modifier.name.tokenKind) {
            context?.complain(
                modifier,
                Complaint(
                    "static", "\(title) is for properties of objects, not of the class"),
                remedy: "Remove “\(modifier.name.text)”",
                [
                    .replace(
                        oldNode: Syntax(declaration.modifiers),
                        newNode: Syntax(
                            declaration.modifiers.filter { $0.id != modifier.id }))
                ])
            return false
        }
        return true
    }

    private func isStored(_ context: (any MacroExpansionContext)?) -> Bool {
        if let accessors = binding.accessorBlock {
            var unmarked = declaration
            unmarked.attributes = declaration.attributes.filter {
                $0.as(AttributeSyntax.self)?.id != attribute.id
            }
            context?.complain(
                accessors,
                Complaint(
                    "computed",
                    "\(title) makes the accessors itself; a computed property, or one with observers, is none "
                        + "of the entity's"),
                remedy: "Remove “\(title)”", [.replace(declaration, by: unmarked)])
            return false
        }
        if let initializer = binding.initializer {
            complain(about: initializer, context)
            return false
        }
        return true
    }

    private func complain(
        about initializer: InitializerClauseSyntax, _ context: (any MacroExpansionContext)?
    ) {
        guard kind == .attribute, argument("default") == nil else {
            context?.complain(
                initializer,
                Complaint(
                    "initial", "\(title) cannot have an initial value; set it in awakeFromInsert()"),
                remedy: "Remove the initial value",
                [removal(of: initializer, typed: type)])
            return
        }
        let value = LabeledExprSyntax(
            label: "default", expression: initializer.value.trimmed)
        var attribute = attribute
        var arguments = attribute.arguments?.as(LabeledExprListSyntax.self) ?? []
        if let last = arguments.indices.last {
            arguments[last].trailingComma = .commaToken(trailingTrivia: .space)
        }
        // Before what comes after it in the macro's parameters.
        arguments.append(value)
        attribute.leftParen = .leftParenToken()
        attribute.attributeName = attribute.attributeName.trimmed
        attribute.arguments = .argumentList(arguments)
        attribute.rightParen = .rightParenToken()
        context?.complain(
            initializer,
            Complaint(
                "initial",
                "an attribute's initial value is its default value in the model: write “default:”"),
            remedy: "Make it the default value",
            [
                .replace(self.attribute, by: attribute),
                removal(of: initializer, typed: type),
            ])
    }

    private func removal(
        of initializer: InitializerClauseSyntax, typed type: TypeSyntax?
    ) -> FixIt.Change {
        var without = binding
        without.initializer = nil
        if let type, var annotation = without.typeAnnotation {
            annotation.type = type.trimmed
            without.typeAnnotation = annotation
        }
        return .replace(binding, by: without)
    }

    // MARK: The type

    private func hasFittingType(_ context: (any MacroExpansionContext)?) -> Bool {
        guard let type, let shape else {
            var typed = binding
            typed.pattern = binding.pattern.trimmed
            typed.typeAnnotation = TypeAnnotationSyntax(
                colon: .colonToken(trailingTrivia: .space),
                type: TypeSyntax(stringLiteral: "<#type#>"))
            context?.complain(
                binding,
                Complaint("type", "\(title) needs a type to be written: “var \(plainName): …”"),
                remedy: "Write the type", [.replace(binding, by: typed)])
            return false
        }
        if let unwrapped = type.as(ImplicitlyUnwrappedOptionalTypeSyntax.self) {
            context?.complain(
                type,
                Complaint(
                    "unwrapped",
                    "\(title) cannot be “\(type.trimmedDescription)”: its value may be missing"),
                remedy: "Replace “!” by “?”",
                [
                    .replace(
                        type, by: OptionalTypeSyntax(wrappedType: unwrapped.wrappedType.trimmed))
                ])
            return false
        }
        switch kind {
        case .attribute: return attributeFits(type, shape, context)
        case .relationship: return relationshipFits(type, shape, context)
        }
    }

    private func attributeFits(
        _ type: TypeSyntax, _ shape: Shape, _ context: (any MacroExpansionContext)?
    ) -> Bool {
        let reason: String
        switch shape {
        case .many:
            reason = "a relationship leads to several objects, and an attribute has one value"
        case .one(let wrapped, _):
            switch wrapped.kind {
            case .identifierType where wrapped.trimmedDescription == "Any",
                .tupleType, .functionType, .dictionaryType, .someOrAnyType, .compositionType,
                .metatypeType, .arrayType, .optionalType, .attributedType:
                reason = "an attribute has one value of a type that stores keep"
            default: return true
            }
        }
        context?.complain(
            type,
            Complaint(
                "attributeType",
                "“\(type.trimmedDescription)” is no type for an attribute: \(reason). Use an integer, Double, Float, "
                    + "Decimal, String, Bool, Date, Data, UUID, URL, an enumeration over one of these, or a type "
                    + "that conforms to AttributeRepresentable"))
        return false
    }

    private static let valueTypes: Set<String> = [
        "Int", "Int16", "Int32", "Int64", "Double", "Float", "Decimal", "String", "Bool", "Date",
        "Data", "UUID", "URL",
    ]

    private func relationshipFits(
        _ type: TypeSyntax, _ shape: Shape, _ context: (any MacroExpansionContext)?
    ) -> Bool {
        switch shape {
        case .many(let member, _):
            if member.is(OptionalTypeSyntax.self) {
                context?.complain(
                    type,
                    Complaint(
                        "optionalMember", "a to-many relationship has no missing members"),
                    remedy: "Remove “?”",
                    [
                        .replace(
                            type,
                            by: TypeSyntax(
                                stringLiteral: type.trimmedDescription.replacing("?", with: "")))
                    ])
                return false
            }
            return isDestination(member, context)
        case .one(let wrapped, isOptional: true):
            if case .many = PropertySyntax.shape(of: wrapped) {
                context?.complain(
                    type,
                    Complaint(
                        "optionalMany",
                        "a to-many relationship is never missing; it is empty if it leads to no object"
                    ),
                    remedy: "Remove “?”", [.replace(type, by: wrapped)])
                return false
            }
            return isDestination(wrapped, context)
        case .one(let wrapped, isOptional: false):
            if wrapped.as(IdentifierTypeSyntax.self)?.genericArgumentClause != nil
                || !(wrapped.is(IdentifierTypeSyntax.self) || wrapped.is(MemberTypeSyntax.self))
            {
                context?.complain(
                    type,
                    Complaint(
                        "relationshipType",
                        "“\(type.trimmedDescription)” is no type for a relationship: use an optional class to lead to "
                            + "at most one object, a Set to lead to many, or an Array to keep them in order"
                    ))
                return false
            }
            guard isDestination(wrapped, context) else { return false }
            context?.complain(
                type,
                Complaint(
                    "toOne",
                    "a to-one relationship must be optional, because a new object has none yet; say “.required” if "
                        + "there must be one when it is saved"),
                remedy: "Make it optional",
                [.replace(type, by: OptionalTypeSyntax(wrappedType: wrapped))])
            return false
        }
    }

    private func isDestination(
        _ type: TypeSyntax, _ context: (any MacroExpansionContext)?
    ) -> Bool {
        guard Self.valueTypes.contains(type.trimmedDescription) else { return true }
        var mark = attribute
        mark.attributeName = "Attribute"
        context?.complain(
            type,
            Complaint("value", "“\(type.trimmedDescription)” is a value and no object"),
            remedy: "Replace “@Relationship” by “@Attribute”", [.replace(attribute, by: mark)])
        return false
    }

    // MARK: The inverse

    private func hasFittingInverse(_ context: (any MacroExpansionContext)?) -> Bool {
        guard let argument = argument("inverse"), inverse == nil else { return true }
        context?.complain(
            argument,
            Complaint(
                "inverse",
                "an inverse is one relationship of the other class: “\\Author.books”"))
        return false
    }
}
