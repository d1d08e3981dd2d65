/// A class whose instances are the objects of an entity. ``ManagedObject`` is the only direct conformer; its
/// subclasses are what entities name. Models refer to classes through this, because the graph lies below them.
public protocol EntityClass: AnyObject, SendableMetatype {
    /// What the class, or the nearest of its superclasses that does, says of its entity; `nil` for a class that
    /// only reads values by key. The macro `@Entity` writes it.
    static var entityDeclaration: EntityDeclaration? { get }
    /// The class of the objects of an entity to which none is bound.
    static var plainClass: any EntityClass.Type { get }
}

extension EntityClass {
    /// Whether another class is this one or a subclass of it.
    static func isSuperclass(of other: any EntityClass.Type) -> Bool { other is Self.Type }
}
