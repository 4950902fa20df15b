/* ffmpeg_pick.h - the packets of a video's stream, and decoding no more of them than chosen frames need. */
#ifndef PH_VIDEO_FFMPEG_PICK_H
#define PH_VIDEO_FFMPEG_PICK_H

#include "video/ffmpeg.h"

/* A packet, in the order of the file, which is that of decoding. */
typedef struct ph_ff_coded {
    int key;   /* the packet of the keyframe that it comes after, or itself */
    int frame; /* its place in time */
} ph_ff_coded;

/* A frame, in the order of time. */
typedef struct ph_ff_shown {
    int64_t pts;
    int     packet;
} ph_ff_shown;

typedef struct ph_ff_list {
    ph_ff_coded *coded;    /* [n]; owned */
    ph_ff_shown *shown;    /* [n]; owned */
    int          n;        /* packets; 0: too many to list */
    int          can_skip; /* 1: each packet is a frame, and decoding may begin at keyframes */
} ph_ff_list;

/* Read the rest of the stream without decoding it.  Errors: PH_ELIMIT packets, PH_ENOMEM. */
ph_rc ph_ff_list_open(ph_ff_list *l, ph_ff_reader *r, ph_err *err);
void  ph_ff_list_close(ph_ff_list *l);

/* Of a stream at its beginning whose list can be skipped through, keep index [n], ascending.  *is_right 0:
 * frames came otherwise than the packets said, v holds some of them, and all has to be decoded. */
ph_rc ph_ff_pick(ph_ff_reader *r, ph_video *v, const ph_ff_list *l, const int *index, int n, int *is_right,
                 ph_err *err);

/* The next packet of the stream, in r->packet, to be given back; *is_over 1: there is none.
 * Errors: PH_ELIMIT more than how->packets_max. */
ph_rc ph_ff_next(ph_ff_reader *r, int *is_over, ph_err *err);
/* Before a packet is decoded.  Errors: PH_ELIMIT more than how->decoded_max pixels. */
ph_rc ph_ff_charge(ph_ff_reader *r, ph_err *err);

#endif
