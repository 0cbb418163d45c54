"""Secret options, which are masked in error texts and in SHOW CREATE."""

from __future__ import annotations

from tidegate.errors.masking import mask_comments as mask_comments
from tidegate.errors.masking import mask_sql as mask_sql
from tidegate.errors.secrets import declare_secret as declare_secret
from tidegate.errors.secrets import hide_known as hide_known
from tidegate.errors.secrets import hide_parts as hide_parts
from tidegate.errors.secrets import is_secret as is_secret
from tidegate.errors.secrets import masked as masked
from tidegate.errors.secrets import remember as remember
from tidegate.errors.secrets import secret_parts as secret_parts
