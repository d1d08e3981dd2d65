public import Foundation

/// An error with its subject and a suggested remedy.
///
/// Every error that Quire throws is of this type. Branch on ``code``; show ``message`` to people.
///
/// ```swift
/// do { try context.save() } catch let error as QuireError where error.code == .validation {
///     for failure in error.failures { print(failure.message) }
/// }
/// ```
public struct QuireError: Error, Sendable {
    /// The kind of failure, to branch on. The set is open: later versions may add codes.
    public struct Code: RawRepresentable, Hashable, Sendable {
        /// The code's stable name.
        public let rawValue: String

        /// Creates a code from its stable name.
        public init(rawValue: String) { self.rawValue = rawValue }
    }

    /// The subject of the failure: file, object, entity or property.
    public struct Subject: Hashable, Sendable {
        /// The entity's name.
        public var entity: String?
        /// The property's name.
        public var property: String?
        /// The object's URI.
        public var object: String?
        /// The path of a file or folder.
        public var file: String?
        /// The line in a text or the column in a format string, from 1.
        public var position: Int?
        /// The violated rule.
        public var rule: Rule?
        /// The value that violates it, as a message shows it.
        public var value: String?
        /// The URIs of other objects involved: those that block a deletion.
        public var relatedObjects: [String]

        /// Creates a subject from the known parts.
        public init(
            entity: String? = nil, property: String? = nil, object: String? = nil,
            file: String? = nil, position: Int? = nil, rule: Rule? = nil, value: String? = nil,
            relatedObjects: [String] = []
        ) {
            self.entity = entity
            self.property = property
            self.object = object
            self.file = file
            self.position = position
            self.rule = rule
            self.value = value
            self.relatedObjects = relatedObjects
        }
    }

    /// The kind of failure.
    public var code: Code
    /// The failure, its subject and a remedy, as one or more sentences.
    public var message: String
    /// The subject of the failure.
    public var subject: Subject
    /// The error that caused this one.
    public var underlying: (any Error)?
    /// The individual failures, if this error combines several.
    public var failures: [QuireError]

    /// Creates an error.
    public init(
        _ code: Code, _ message: String, subject: Subject = Subject(),
        underlying: (any Error)? = nil, failures: [QuireError] = []
    ) {
        self.code = code
        self.message = message
        self.subject = subject
        self.underlying = underlying
        self.failures = failures
    }

    /// Makes an error whose subject is a file or folder.
    package init(
        _ code: Code, _ message: String, file: String?, position: Int? = nil, value: String? = nil,
        underlying: (any Error)? = nil, failures: [QuireError] = []
    ) {
        self.init(
            code, message, subject: Subject(file: file, position: position, value: value),
            underlying: underlying, failures: failures)
    }

    /// Makes an error whose subject is an entity, or something of it.
    package init(
        _ code: Code, _ message: String, entity: String?, property: String? = nil,
        object: String? = nil, file: String? = nil, position: Int? = nil, rule: Rule? = nil,
        value: String? = nil, relatedObjects: [String] = [], underlying: (any Error)? = nil,
        failures: [QuireError] = []
    ) {
        let subject = Subject(
            entity: entity, property: property, object: object, file: file, position: position,
            rule: rule, value: value, relatedObjects: relatedObjects)
        self.init(code, message, subject: subject, underlying: underlying, failures: failures)
    }

    /// Combines errors: returns a single error itself, several as one error with ``failures``.
    ///
    /// - Precondition: `failures` is not empty.
    public static func combining(_ failures: [QuireError]) -> QuireError {
        precondition(!failures.isEmpty, "QuireError.combining needs at least one failure.")
        if failures.count == 1 { return failures[0] }
        let shown = failures.prefix(5).map(\.message).joined(separator: " ")
        let rest = failures.count > 5 ? " And \(failures.count - 5) more." : ""
        return QuireError(
            failures[0].code, "\(failures.count) failures: \(shown)\(rest)", failures: failures)
    }
}

extension QuireError.Code {
    /// A file, folder, object or entity does not exist.
    public static let notFound = Self(rawValue: "notFound")
    /// An existing file or folder would be overwritten.
    public static let alreadyExists = Self(rawValue: "alreadyExists")
    /// The file does not have the required format, or is damaged.
    public static let invalidFormat = Self(rawValue: "invalidFormat")
    /// A model is inconsistent or cannot be used.
    public static let invalidModel = Self(rawValue: "invalidModel")
    /// The model is incompatible with the store.
    public static let incompatibleModel = Self(rawValue: "incompatibleModel")
    /// A value has the wrong type or cannot be parsed.
    public static let invalidValue = Self(rawValue: "invalidValue")
    /// An object does not satisfy its model's rules.
    public static let validation = Self(rawValue: "validation")
    /// A key is not the name of a property of the entity.
    public static let unknownKey = Self(rawValue: "unknownKey")
    /// A name is not the name of an entity of the model.
    public static let unknownEntity = Self(rawValue: "unknownEntity")
    /// A predicate or query cannot be parsed, or is not valid for the entity.
    public static let invalidQuery = Self(rawValue: "invalidQuery")
    /// A deletion is denied by a relationship's delete rule.
    public static let deleteDenied = Self(rawValue: "deleteDenied")
    /// A migration would remove objects or values without permission.
    public static let removalDenied = Self(rawValue: "removalDenied")
    /// The object was changed in the store after it was read.
    public static let mergeConflict = Self(rawValue: "mergeConflict")
    /// Another program has replaced or removed the store's file while it was open.
    public static let storeReplaced = Self(rawValue: "storeReplaced")
    /// A uniqueness constraint would be violated.
    public static let constraintConflict = Self(rawValue: "constraintConflict")
    /// The store cannot be read or written.
    public static let storeUnavailable = Self(rawValue: "storeUnavailable")
    /// The store or document was opened for reading only.
    public static let readOnly = Self(rawValue: "readOnly")
    /// The store or document is in use, usually by another process.
    public static let locked = Self(rawValue: "locked")
    /// Protected data cannot be read or written, because their protection domain is locked.
    public static let protectedDataUnavailable = Self(rawValue: "protectedDataUnavailable")
    /// A store or document cannot be protected as requested: no domain is set up, or its kind cannot be encrypted.
    public static let protectionUnavailable = Self(rawValue: "protectionUnavailable")
    /// The passphrase, key file or recovery key does not unlock any slot of a keybag.
    public static let wrongKey = Self(rawValue: "wrongKey")
    /// The disk, or the user's quota, is full.
    public static let outOfSpace = Self(rawValue: "outOfSpace")
    /// A system call failed.
    public static let inputOutput = Self(rawValue: "inputOutput")
    /// The operation was cancelled.
    public static let cancelled = Self(rawValue: "cancelled")
    /// The operation is not possible in the current state of the object it was called on.
    public static let invalidState = Self(rawValue: "invalidState")
    /// Transactions that a history token needs have been deleted.
    public static let historyTokenExpired = Self(rawValue: "historyTokenExpired")
    /// A query generation has expired: it was too old, or too much had been written since.
    public static let generationExpired = Self(rawValue: "generationExpired")
    /// The folder contains a different shared document from the one the store is synchronized with.
    public static let syncedContentReplaced = Self(rawValue: "syncedContentReplaced")
    /// The shared document was deliberately deleted from the folder.
    public static let syncedContentRemoved = Self(rawValue: "syncedContentRemoved")
    /// The requested operation is not supported.
    public static let unsupported = Self(rawValue: "unsupported")
}

extension QuireError: CustomStringConvertible, LocalizedError {
    /// The message.
    public var description: String { message }

    /// The message, for `localizedDescription`.
    public var errorDescription: String? { message }
}

// MARK: - Rules

extension QuireError {
    /// The rule that a value or a relationship violates. The set is open: later versions may add rules.
    public struct Rule: RawRepresentable, Hashable, Sendable {
        /// The rule's stable name.
        public let rawValue: String

        /// Creates a rule from its stable name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// A value or an object is required.
        public static let required = Rule(rawValue: "required")
        /// A number or date must not be less than a minimum.
        public static let minimum = Rule(rawValue: "minimum")
        /// A number or date must not be greater than a maximum.
        public static let maximum = Rule(rawValue: "maximum")
        /// A text has a minimum length.
        public static let minimumLength = Rule(rawValue: "minimumLength")
        /// A text has a maximum length.
        public static let maximumLength = Rule(rawValue: "maximumLength")
        /// A text must match a regular expression.
        public static let regularExpression = Rule(rawValue: "regularExpression")
        /// A value must satisfy a predicate.
        public static let predicate = Rule(rawValue: "predicate")
        /// A relationship has fewer objects than its minimum count.
        public static let minimumCount = Rule(rawValue: "minimumCount")
        /// A relationship has more objects than its maximum count.
        public static let maximumCount = Rule(rawValue: "maximumCount")
        /// A deletion is denied because a relationship with the deny rule is not empty.
        public static let deny = Rule(rawValue: "deny")
        /// A rule of the object's class.
        public static let custom = Rule(rawValue: "custom")
    }
}
