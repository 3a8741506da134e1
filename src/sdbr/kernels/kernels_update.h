/* Parameter updates. The macro holds registry entries, each followed by a comma:
 *   {"sgd_contiguous_f4", sgd_contiguous_f4}, */
#define SDBR_UPDATE_ENTRIES
