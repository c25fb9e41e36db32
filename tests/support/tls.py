"""A certificate authority of our own, and a certificate for the loopback that it signed."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey


def authority(folder: Path, address: str = "127.0.0.1") -> tuple[Path, ssl.SSLContext]:
    """Make an authority and a server certificate for an address.

    Returns:
        The PEM file of the authority's certificate, and the context of a server that has the other one.
    """
    root, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = folder / "ca.pem"
    ca.write_bytes(_signed("tests", root, "tests", root, x509.BasicConstraints(ca=True, path_length=None)))
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))])
    pair = folder / "server.pem"
    pair.write_bytes(_pem(server) + _signed("loopback", server, "tests", root, names))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    return ca, context


def _signed(name: str, key: Key, issuer: str, by: Key, extension: x509.ExtensionType) -> bytes:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(extension, critical=True)
    )
    return builder.sign(by, SHA256()).public_bytes(Encoding.PEM)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(key: Key) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
