"""The declarations of all settings, a group a file; `tandem.config` puts them together and reads them."""
