"""The conductor's configuration: eight kinds of versioned JSON documents (CFG-001)."""

from tandem.conductor.documents.deciders import DeciderApi, Deciders
from tandem.conductor.documents.documents import KINDS, Body, DocumentKey, Documents, Kind, document_key
from tandem.conductor.documents.monitor import MonitorDocument
from tandem.conductor.documents.packages import Package, Packages
from tandem.conductor.documents.parsing import DocumentError, parse
from tandem.conductor.documents.profiles import LOCKED, ClassRouting, Decisions, Profile, Routing
from tandem.conductor.documents.residency import Residency
from tandem.conductor.documents.roles import RoleContract, Roles, StoredRole
from tandem.conductor.documents.router import ClassDef, Classifier, Policy, Router, SideShape
from tandem.conductor.documents.settings import DiskCacheSettings, SettingsDocument
from tandem.conductor.documents.shipped import shipped_documents
from tandem.conductor.documents.words import Level, Mode, Name, OnOff, OnShadowAct, Section, Switch

__all__ = [
    "KINDS",
    "LOCKED",
    "Body",
    "ClassDef",
    "ClassRouting",
    "Classifier",
    "DeciderApi",
    "Deciders",
    "Decisions",
    "DiskCacheSettings",
    "DocumentError",
    "DocumentKey",
    "Documents",
    "Kind",
    "Level",
    "Mode",
    "MonitorDocument",
    "Name",
    "OnOff",
    "OnShadowAct",
    "Package",
    "Packages",
    "Policy",
    "Profile",
    "Residency",
    "RoleContract",
    "Roles",
    "Router",
    "Routing",
    "Section",
    "SettingsDocument",
    "SideShape",
    "StoredRole",
    "Switch",
    "document_key",
    "parse",
    "shipped_documents",
]
