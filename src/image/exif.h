/* exif.h - one number out of an EXIF block: how the camera was held.
 *
 * Source: Exif 2.32 (CIPA DC-008) §4.6; TIFF 6.0 §2.
 */
#ifndef PH_IMAGE_EXIF_H
#define PH_IMAGE_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* The Orientation tag of IFD 0 in bytes[n] (from the TIFF header, "II*\0" or "MM\0*", on):
 * 1 .. 8, and 1 for whatever is absent, malformed or out of range. */
int ph_exif_orientation(const uint8_t *bytes, size_t n);

#endif
