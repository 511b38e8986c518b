//! The resource types of the sample.

use tonic_idempotency::store::{ResourceType, ResourceTypes};

/// The types whose creation is recorded. Migration 3 registers them, and looks their status up in the outbox.
pub fn resource_types() -> ResourceTypes {
    let types = [
        ResourceType::new("api_key", "api_key_id", "tenant.api_keys"),
        ResourceType::new("cluster", "cluster_id", "tenant.clusters"),
        ResourceType::new("install", "install_id", "tenant.installs"),
        ResourceType::new("namespace", "namespace_id", "tenant.namespaces"),
        ResourceType::new("node_pool", "node_pool_id", "tenant.node_pools"),
        ResourceType::new("organization_user", "organization_user_id", "tenant.organization_users"),
        ResourceType::new("project", "project_id", "tenant.projects"),
        ResourceType::new("project_member", "project_member_id", "tenant.project_members"),
    ];
    ResourceTypes::new(types.map(ResourceType::tracked))
}
