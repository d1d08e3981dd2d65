extension ManagedObjectContext {
    /// Checks what a save would write against the model, and has the objects of classes of their own check it.
    ///
    /// - Throws: ``QuireError`` with code `validation`, or `deleteDenied` if only deletions are at fault. Each
    ///   failure names the object, the property, the rule and the value.
    func validatePendingChanges() throws {
        var failures: [QuireError] = []
        // A copy, because a method of a class may change other objects.
        for object in tracked {
            if !object.entity.hasRules && object.state.contains(.live)
                && !object.state.contains(.hasHooks)
            {
                continue
            }
            failures += object.failuresForSaving()
        }
        if failures.isEmpty { return }
        var error = QuireError.combining(failures)
        if failures.contains(where: { $0.code == .validation }) { error.code = .validation }
        throw error
    }
}
