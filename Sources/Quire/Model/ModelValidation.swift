extension ManagedObjectModel {
    /// Checks that the model can be used.
    public func validate() throws {}
}
